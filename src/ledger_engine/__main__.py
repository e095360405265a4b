from ledger_engine.cli import main

main()
