package cloudinit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"gopkg.in/yaml.v3"
)

// Config is the section cloudInit of the runner's configuration. The values are the user's YAML nodes; a missing
// key is the zero node. Even an empty section requests a seed.
type Config struct {
	// MetaData is a mapping. Seed adds instance-id and local-hostname if they are missing.
	MetaData yaml.Node `yaml:"metaData"`
	// UserData is a mapping, which becomes a cloud-config, or a text. A text that starts with one of cloud-init's
	// headers is used verbatim, and any other text gets the header #cloud-config. !!binary is for data that is
	// impossible in YAML, such as a gzip archive.
	UserData yaml.Node `yaml:"userData"`
	// NetworkConfig is a mapping. If it is missing or empty, the guest chooses its own network configuration.
	NetworkConfig yaml.Node `yaml:"networkConfig"`
	// VendorData follows the rules of UserData. If it is missing or empty, there is no such file.
	VendorData yaml.Node `yaml:"vendorData"`
	// UserDataFile is the path of a file with user-data, with the same rules as for a text. NetworkConfigFile is
	// the path of a file with the network configuration, which is passed on unchanged. See Read.
	UserDataFile      string `yaml:"userDataFile"`
	NetworkConfigFile string `yaml:"networkConfigFile"`
}

// Seed renders the configuration as the four files. The VM's name becomes the host name, unless the meta-data
// contains a host name. The error joins a [*KeyError] for each invalid key. Seed ignores UserDataFile and
// NetworkConfigFile; call Read first, which replaces them by their content.
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

// readNetworkConfig renders the network configuration. It returns nil if it is empty.
func readNetworkConfig(n *yaml.Node) ([]byte, error) {
	if n.Tag == verbatim {
		return []byte(n.Value), nil
	}
	mapping, err := readMapping("networkConfig", n)
	if err != nil || len(mapping.Content) == 0 {
		return nil, err
	}
	return encodeYAML("networkConfig", mapping)
}

// renderMetaData completes the user's meta-data and renders it. It computes the instance-id last, because the
// instance-id depends on the rest.
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
		if rest.MetaData, err = encodeYAML("metaData", meta); err != nil {
			return nil, err
		}
		setString(id, instanceID(vmName, rest))
	}
	return encodeYAML("metaData", meta)
}

// instanceID returns a name for the instance that the data describes. It is equal for equal data and VM names,
// and different otherwise.
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

// scalarEntry returns the value of a key in the meta-data. It appends an empty value if the key is missing. A
// null counts as empty.
func scalarEntry(mapping *yaml.Node, key string) (*yaml.Node, error) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value != key {
			continue
		}
		value := mapping.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return nil, keyFault("metaData."+key, value, "must be a string, not "+describeKind(value))
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

// setString sets the node to a string that no version of YAML can read as another type.
func setString(n *yaml.Node, s string) {
	*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}
