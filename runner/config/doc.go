// Package config reads what a runner is told: its configuration file, the
// files beside it, and the directories that follow from both.
//
// # The file
//
// The file is YAML with one section, "/Runner" (or "_Runner"), which becomes a
// [Config]; its key vm becomes a [vmspec.Spec]. Load reads it strictly and in
// three steps, each of which reports all the faults it finds:
//
//   - syntax: the bytes must be UTF-8 text of at most 1 MiB and one YAML
//     document (parse.go)
//   - shape: every key must be known, be there once and have a value of its
//     type (decode.go, scalar.go)
//   - sense: vmspec's Check, and what the sections ask of each other
//     (config.go)
//
// A [Fault] has a position, even if vmspec found it: the decoder remembers
// where every path stands in the file (places.go). A fault that only follows
// from another one is left out: with maximumRm misspelt, nobody wants to read
// that currentRam is more than maximumRam's default.
//
// The decoder is our own because yaml.v3's stops being helpful early: it has no
// columns, no paths and no suggestions, reports syntax by line at best, turns
// 0o14 and 010 silently into other numbers, and can't tell an absent list from
// an empty one.
//
// Load keeps no state. While a VM runs, Watch tells when the file may have
// changed (watch.go; how Linux knows is in watch_linux.go), and a [Source]
// reads it again and keeps what it said when it was last without fault.
//
// # Around the file
//
// DataDirectory and RuntimeDirectory apply the directory rules, EnsureUUID keeps the
// machine's identity in the data directory, and ReadDisplayPassword and
// ReadPasswordExpiry read what a Kubernetes Secret puts beside the file.
package config
