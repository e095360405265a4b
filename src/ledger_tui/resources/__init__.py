"""One file for each screen. The file declares the screen's columns, list, detail and form."""
