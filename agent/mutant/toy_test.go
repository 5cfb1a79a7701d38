package mutant

// half is what the mutants of this package's tests are made of.
func half(n int) int {
	if n < 0 {
		return 0
	}
	return n / 2
}
