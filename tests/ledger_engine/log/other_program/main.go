// Checks proofs with golang.org/x/mod/sumdb, which is no code of the ledger's.
//
// Reads a JSON object a line, {"proof", "entry" (base64), "key"}, and answers each with a line: "ok", or why not.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type question struct {
	Proof string `json:"proof"`
	Entry []byte `json:"entry"`
	Key   string `json:"key"`
}

func hash(text string) (found tlog.Hash, err error) {
	value, err := base64.StdEncoding.Strict().DecodeString(text)
	if err == nil && len(value) != tlog.HashSize {
		err = errors.New("a hash of another length")
	}
	copy(found[:], value)
	return found, err
}

func check(asked question) error {
	parts := strings.SplitN(asked.Proof, "\n\n", 2)
	if len(parts) != 2 {
		return errors.New("no checkpoint")
	}
	lines := strings.Split(parts[0], "\n")
	if len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" || !strings.HasPrefix(lines[1], "index ") {
		return errors.New("not a proof")
	}
	index, err := strconv.ParseInt(lines[1][len("index "):], 10, 64)
	if err != nil {
		return err
	}
	var path tlog.RecordProof
	for _, line := range lines[2:] {
		next, err := hash(line)
		if err != nil {
			return err
		}
		path = append(path, next)
	}
	verifier, err := note.NewVerifier(asked.Key)
	if err != nil {
		return err
	}
	opened, err := note.Open([]byte(parts[1]), note.VerifierList(verifier))
	if err != nil {
		return err
	}
	fields := strings.Split(opened.Text, "\n")
	if len(fields) < 4 || fields[0] != verifier.Name() {
		return errors.New("a checkpoint of another log")
	}
	size, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return err
	}
	root, err := hash(fields[2])
	if err != nil {
		return err
	}
	if index < 0 || index >= size {
		return errors.New("no such entry")
	}
	return tlog.CheckRecord(path, size, root, index, tlog.RecordHash(asked.Entry))
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var asked question
		err := json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			err = check(asked)
		}
		if err == nil {
			fmt.Println("ok")
		} else {
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}
