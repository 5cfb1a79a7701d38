//go:build race

package main

// buildFlags builds the program under test as these tests are built.
var buildFlags = []string{"-race"}
