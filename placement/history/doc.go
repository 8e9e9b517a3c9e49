// Package history judges what clients of a mesh saw while it was being broken. It is
// for tests and for locus chaos; nothing that runs calls uses it.
//
// Each session of such a run holds a list, made under a random name for each of its
// generations, that is for each time that it was built from nothing. Calls append a
// token of their own and give back the list, or only read it. The code leaves marks
// in a file outside, by the clock of the machine. From what the clients were told and
// from the marks, Check finds every promise that was broken.
package history
