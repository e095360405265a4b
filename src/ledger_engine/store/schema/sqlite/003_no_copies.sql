-- Drops the tables and the column of the removed command `pull`, which filled read-only copies of books.
DROP TABLE pulled;
DROP TABLE pull_lists;
DROP TABLE pulls;
DROP INDEX books_copied;
ALTER TABLE books DROP COLUMN copy_of;
