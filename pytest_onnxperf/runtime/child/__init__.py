"""What runs inside a measuring process: standard library, numpy and the runtime, Python 3.9 or later, nothing else.

The source of this package may be handed to an interpreter that lacks the plugin. Its modules therefore import only each
other, relatively, and use no syntax or library newer than Python 3.9.
"""
