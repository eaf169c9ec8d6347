// Package yamlfile strictly reads YAML files that people write into Go structs. It reports all errors of a file
// together, each with its place.
//
// The yaml tag of a struct's field is its key. [Decode] reads a whole document, and [DecodeSections] reads the
// configuration of a program that consists of components. A [Reader] lets its user inspect the result between the
// steps:
//
//   - syntax: the bytes must be UTF-8 text of at most 1 MiB and one YAML document (parse.go)
//   - settings from the command line are applied (set.go)
//   - shape: every key must be known, occur only once and have a value of its type (decode.go, scalar.go)
//   - sense: errors that the user of the package finds in the values and reports by their paths ([Reader.Refuse],
//     [Document.Locate])
//
// A [Fault] has a line and a column, even if it was found by code that knows only a path such as
// "vm.network[0].mac": the reader remembers the place of every path in the file (document.go). An error that may
// only follow from another error is left out. For example, if maximumRm is misspelled, it doesn't help to read that
// currentRam is more than maximumRam's default.
//
// The package has its own decoder because yaml.v3's is not helpful enough:
//
//   - It reports no columns, paths or suggestions, and at best the line of a syntax error.
//   - It silently turns 0o14 and 010 into other numbers.
//   - It doesn't distinguish an absent list from an empty list.
//
// [Write] converts in the other direction. [Edit], [InsertItem] and [RemoveItem] change a user's file and keep the
// rest of it.
//
// See docs/decisions/0002-yaml-module.md.
//
// See docs/decisions/0015-strict-configuration.md.
package yamlfile
