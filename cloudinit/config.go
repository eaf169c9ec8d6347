package cloudinit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"gopkg.in/yaml.v3"
)

// Config is the section cloudInit of the runner's configuration. The values are the YAML nodes that the user wrote; a
// missing key is the zero node. A section that is present but empty still asks for a seed.
type Config struct {
	// MetaData is a mapping. Seed adds instance-id and local-hostname where they are missing.
	MetaData yaml.Node `yaml:"metaData"`
	// UserData is a mapping, which becomes a cloud-config, or a text. A text that starts with one of cloud-init's
	// headers is taken verbatim, any other gets the header #cloud-config. !!binary holds data that YAML can't, such
	// as a gzip archive.
	UserData yaml.Node `yaml:"userData"`
	// NetworkConfig is a mapping; without it, or when it is empty, the guest chooses its own network configuration.
	NetworkConfig yaml.Node `yaml:"networkConfig"`
	// VendorData follows the rules of UserData; without it, or when it is empty, there is no such file.
	VendorData yaml.Node `yaml:"vendorData"`
	// UserDataFile is the path of a file with user-data, under the rules for a text; NetworkConfigFile of one with
	// the network configuration, which is passed as it is. See Read.
	UserDataFile      string `yaml:"userDataFile"`
	NetworkConfigFile string `yaml:"networkConfigFile"`
}

// Seed renders the configuration into the four files. The VM's name becomes the host name unless the meta-data give
// one. An error joins a [*KeyError] for each key that can't be used. Files that the configuration names have no part
// in it: Read puts their content in the place of their names.
func (c *Config) Seed(vmName string) (Seed, error) {
	meta, metaErr := readMapping("metaData", &c.MetaData)
	user, userErr := readDocument("userData", &c.UserData)
	network, networkErr := readNetworkConfig(&c.NetworkConfig)
	vendor, vendorErr := readDocument("vendorData", &c.VendorData)
	if err := errors.Join(metaErr, userErr, networkErr, vendorErr); err != nil {
		return Seed{}, err
	}
	seed := Seed{UserData: user, VendorData: vendor, NetworkConfig: network}
	if user == nil {
		seed.UserData = []byte(emptyUserData)
	}
	var err error
	seed.MetaData, err = renderMetaData(meta, vmName, seed)
	return seed, err
}

// readNetworkConfig renders the network configuration; nil: there is none.
func readNetworkConfig(n *yaml.Node) ([]byte, error) {
	if n.Tag == verbatim {
		return []byte(n.Value), nil
	}
	mapping, err := readMapping("networkConfig", n)
	if err != nil || len(mapping.Content) == 0 {
		return nil, err
	}
	return encode("networkConfig", mapping)
}

// renderMetaData completes the user's meta-data and renders it. The instance-id comes last, for it is derived from the
// rest.
func renderMetaData(meta *yaml.Node, vmName string, rest Seed) ([]byte, error) {
	hostName, err := scalarEntry(meta, "local-hostname")
	if err != nil {
		return nil, err
	}
	if hostName.Value == "" {
		setString(hostName, vmName)
	}
	id, err := scalarEntry(meta, "instance-id")
	if err != nil {
		return nil, err
	}
	if id.Value == "" {
		setString(id, "")
		if rest.MetaData, err = encode("metaData", meta); err != nil {
			return nil, err
		}
		setString(id, instanceID(vmName, rest))
	}
	return encode("metaData", meta)
}

// instanceID names the instance that the data describe: equal for equal data and VM names, different otherwise.
func instanceID(vmName string, s Seed) string {
	hash := sha256.New()
	for _, part := range [][]byte{[]byte(vmName), s.MetaData, s.UserData, s.NetworkConfig, s.VendorData} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		hash.Write(size[:])
		hash.Write(part)
	}
	return "iid-" + hex.EncodeToString(hash.Sum(nil)[:16])
}

// scalarEntry finds the value of a key in the meta-data, or appends an empty one. A null counts as empty.
func scalarEntry(mapping *yaml.Node, key string) (*yaml.Node, error) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value != key {
			continue
		}
		value := mapping.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return nil, fault("metaData."+key, value, "got "+describe(value)+", want a string")
		}
		if value.ShortTag() == "!!null" {
			value.Value = ""
		}
		return value, nil
	}
	name, value := new(yaml.Node), new(yaml.Node)
	name.SetString(key)
	setString(value, "")
	mapping.Content = append(mapping.Content, name, value)
	return value, nil
}

// setString makes the node a string that no version of YAML can take for something else.
func setString(n *yaml.Node, s string) {
	*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}
