// Package config reads the configuration of a runner: its configuration file, the files next to it, and the
// directories that follow from both.
//
// # The file
//
// The file is YAML with one section, "/Runner" (or "_Runner"), which becomes a [Config]; its key vm becomes a
// [vmspec.Spec]. Load reads it strictly, with package yamlfile. It adds the checks that depend on the meaning of
// the configuration: vmspec's Check, and the dependencies between sections (config.go). It reports all errors
// together, each with its place in the file.
//
// Load keeps no state. While a VM is running, Watch reports when the file may have changed (package filewatch). A
// [Source] reads the file again, and keeps the last valid configuration.
//
// # Around the file
//
//   - DataDirectory and RuntimeDirectory apply the directory rules.
//   - EnsureUUID keeps the machine's identity in the data directory.
//   - ReadDisplayPassword and ReadPasswordExpiry read the files of a Kubernetes Secret next to the configuration.
package config
