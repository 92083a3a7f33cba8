"""Adapters: what meets a real runtime, a real process or a real disk."""
