package cli

import "fmt"

// didYouMean is ` (did you mean "x"?)` for the known word nearest to given, or "" when none is near.
func didYouMean(given string, known []string) string {
	best, bestDistance := "", len(given)/3+2
	for _, k := range known {
		if d := distance(given, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance is the least number of bytes inserted, deleted or replaced to turn a into b (Levenshtein 1965), one row at a time.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = row[j+1]
			row[j+1] = min(replaced, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}
