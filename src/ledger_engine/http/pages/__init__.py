"""The pages on which users sign in and decide what apps may do."""
