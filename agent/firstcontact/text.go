package firstcontact

import (
	"fmt"
	"slices"
	"strings"
)

// fromName finds a name of an enumeration.
func fromName[T ~uint8](v *T, names []string, what string, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("firstcontact: %s %q, want one of %s", what, text, strings.Join(names, ", "))
	}
	*v = T(i)
	return nil
}
