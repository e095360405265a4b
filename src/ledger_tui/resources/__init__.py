"""One declarative file per screen: its columns, its list, its detail, its form."""
