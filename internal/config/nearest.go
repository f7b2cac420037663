package config

import (
	"fmt"
	"slices"
	"strings"
)

// orNearest returns the end of an error about a word that is not among known: the
// one it was probably meant to be, or all of them.
func orNearest(word string, known []string) string {
	if hint := didYouMean(word, known); hint != "" || len(known) == 0 {
		return hint
	}
	sorted := slices.Sorted(slices.Values(known))
	return "; known here: " + strings.Join(sorted, ", ")
}

// didYouMean returns the known word that word was probably meant to be, as the end
// of an error; "" without one.
func didYouMean(word string, known []string) string {
	if near, ok := nearest(word, known); ok {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// nearest returns the known word with the fewest edits from word, if that is near
// enough to be a slip: a third of its letters, at least one.
func nearest(word string, known []string) (string, bool) {
	if len(word) > 64 { // no slip of any word we know, and the distance costs the product of the lengths
		return "", false
	}
	best, bestEdits := "", len(word)
	for _, k := range known {
		edits := distance(strings.ToLower(word), k)
		if edits < bestEdits && edits <= max(1, (len(k)+2)/3) {
			best, bestEdits = k, edits
		}
	}
	return best, best != ""
}

// distance counts the insertions, deletions, replacements and swaps of neighbours
// that make b of a (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
