"""Whole screens: the dashboard and the dialogs over it."""
