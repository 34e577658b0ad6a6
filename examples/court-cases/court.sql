CREATE TABLE cases (number TEXT PRIMARY KEY, party TEXT NOT NULL, filed TEXT NOT NULL, state TEXT NOT NULL, secrecy INTEGER NOT NULL);
INSERT INTO cases VALUES
  ('0001-24', 'Alvorada Ltda.', '2024-02-01', 'open', 0),
  ('0002-24', 'Alvorada Ltda.', '2024-05-17', 'sealed', 2),
  ('0003-25', 'Souza e Filhos', '2025-01-09', 'closed', 0),
  ('0004-25', 'O''Hara & Co.', '2025-03-30', 'open', 1);
