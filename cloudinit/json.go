package cloudinit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"
)

// FromJSON returns the configuration whose keys have these values, as a resource of Kubernetes has them: nil is a missing
// key. Strings stay strings, and numbers are as they are written.
func FromJSON(metaData, userData, networkConfig []byte) (*Config, error) {
	var c Config
	for _, part := range []struct {
		key  string
		json []byte
		to   *yaml.Node
	}{{"metaData", metaData, &c.MetaData}, {"userData", userData, &c.UserData}, {"networkConfig", networkConfig, &c.NetworkConfig}} {
		if part.json == nil {
			continue
		}
		value, err := decodeJSON(part.json)
		if err == nil {
			err = part.to.Encode(value)
		}
		if err != nil {
			return nil, fmt.Errorf("read cloudInit.%s: %w", part.key, err)
		}
	}
	return &c, nil
}

func decodeJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return value, nil
}
