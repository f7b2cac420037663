package wire

import "strings"

// Locate returns where a field such as "attempted.class" stands in a submission, as
// bytes into text: the nearest thing to it where it does not stand there.
func Locate(text []byte, field string) int {
	w := &walker{text: text}
	offset := w.start()
	first, rest, _ := strings.Cut(field, ".")
	_ = w.object("", func(name string, v value) error {
		if name != first {
			return nil
		}
		offset = v.at
		if v.is('{') && rest != "" {
			_ = v.walk().object("", func(name string, v value) error {
				if name == rest {
					offset = v.at
				}
				return nil
			})
		}
		return nil
	})
	return offset
}
