"""Texts about requests and calls on one line, visible, in the words of every interface."""
