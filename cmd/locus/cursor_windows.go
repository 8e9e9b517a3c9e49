package main

import (
	"io"
	"os"
)

// tellsCursor: the system itself knows where the cursor is.
func tellsCursor(*os.File, io.Writer) (tells bool, typed string, err error) { return true, "", nil }
