package cloudinit

import (
	"errors"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"vmop/internal/readfile"
)

// Read returns the configuration with the content of the files that it names, instead of their names. Relative
// paths begin at folder. The error joins a [*KeyError] for each unreadable file, which wraps the file's error.
func (c *Config) Read(folder string) (*Config, error) {
	read := *c
	userErr := readFile(folder, "userDataFile", &read.UserDataFile, &read.UserData)
	networkErr := readFile(folder, "networkConfigFile", &read.NetworkConfigFile, &read.NetworkConfig)
	if err := errors.Join(userErr, networkErr); err != nil {
		return nil, err
	}
	return &read, nil
}

// readFile reads the file in one key into the node of another key.
func readFile(folder, key string, name *string, into *yaml.Node) error {
	if *name == "" {
		return nil
	}
	path := *name
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	content, err := readfile.ReadFile(path, MaxData)
	if err != nil {
		return &KeyError{Key: key, Problem: err.Error(), cause: err}
	}
	*name, *into = "", yaml.Node{Kind: yaml.ScalarNode, Tag: verbatim, Value: string(content)}
	return nil
}

// verbatim is the tag of a node that contains the content of a file. It cannot occur in YAML.
const verbatim = "\x00file"
