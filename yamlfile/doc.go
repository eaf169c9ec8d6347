// Package yamlfile reads YAML files that people write, strictly, into Go structs,
// and reports everything that is wrong with one at once, each fault with its place.
//
// The yaml tag of a struct's field is its key. [Decode] reads a whole document,
// [DecodeSections] the configuration of a program that consists of components, and
// a [Reader] lets its user look between the steps:
//
//   - syntax: the bytes must be UTF-8 text of at most 1 MiB and one YAML document
//     (parse.go)
//   - settings that are made on a command line take effect (set.go)
//   - shape: every key must be known, be there once and have a value of its type
//     (decode.go, scalar.go)
//   - sense: what the user of the package finds wrong with the values, which it
//     reports by their paths ([Reader.Refuse], [Document.Locate])
//
// A [Fault] has a line and a column, even if it was found by code that knows only
// a path such as "vm.network[0].mac": the reader remembers where every path stands
// in the file (places.go). A fault that may only follow from another one is left
// out: with maximumRm misspelt, it does not help to read that currentRam is more
// than maximumRam's default.
//
// The decoder is our own because yaml.v3's stops being helpful early: it has no
// columns, no paths and no suggestions, reports syntax by line at best, turns
// 0o14 and 010 silently into other numbers, and can't tell an absent list from
// an empty one.
//
// [Write] is the way back. [Edit], [InsertItem] and [RemoveItem] change a file that its author has written, and
// keep the rest of it.
//
// See docs/decisions/0002-yaml-module.md.
//
// See docs/decisions/0015-strict-configuration.md.
package yamlfile
