"""What the dashboard knows: plain values and rules, without Textual and without HTTP."""
