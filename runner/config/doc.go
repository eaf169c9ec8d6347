// Package config reads what a runner is to do: its configuration file, the files
// beside it, and the directories that follow from both.
//
// # The file
//
// The file is YAML with one section, "/Runner" (or "_Runner"), which becomes a
// [Config]; its key vm becomes a [vmspec.Spec]. Load reads it strictly, with package
// yamlfile, and adds what only the configuration's meaning can tell: vmspec's Check,
// and what the sections ask of each other (config.go). All faults are reported at
// once, each with its place in the file.
//
// Load keeps no state. While a VM runs, Watch reports when the file may have changed
// (package filewatch), and a [Source] reads it again and keeps what it said when it
// was last without fault.
//
// # Around the file
//
// DataDirectory and RuntimeDirectory apply the directory rules, EnsureUUID keeps the
// machine's identity in the data directory, and ReadDisplayPassword and
// ReadPasswordExpiry read what a Kubernetes Secret puts beside the file.
package config
