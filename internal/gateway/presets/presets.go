// Package presets holds what is known of well-known gateways: one YAML file each,
// with a source and a confidence for every fact. It only carries the files; package
// config reads them, by the same strict reader as a configuration, and puts into force
// what they say (docs/presets.md).
package presets

import (
	"embed"
	"slices"
	"strings"
)

//go:embed *.yaml
var files embed.FS

const suffix = ".yaml"

// Names returns the names of all presets, sorted. The caller owns the slice.
func Names() []string {
	entries, _ := files.ReadDir(".") // what is embedded can be read
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), suffix)
	}
	slices.Sort(names)
	return names
}

// File returns the file of a preset as it stands in the source; ok is false if there
// is none of that name.
func File(name string) (data []byte, ok bool) {
	data, err := files.ReadFile(name + suffix)
	return data, err == nil
}
