"""The state of the dashboard: plain values and rules, without Textual and without HTTP."""
