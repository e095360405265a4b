-- `pull` and the read-only copies that it made are gone, with what they stored.
DROP TABLE pulled;
DROP TABLE pull_lists;
DROP TABLE pulls;
DROP INDEX books_copied;
ALTER TABLE books DROP COLUMN copy_of;
