"""The Python side of a kernel: see DESIGN.md in the folder above."""
