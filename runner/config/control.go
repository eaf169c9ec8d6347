package config

import (
	"fmt"
	"strconv"
)

// ControlPortVariable of the environment contains the TCP port of the control interface for the manager, in a
// pod; 0 means any free port. Without the variable there is no such interface.
const ControlPortVariable = "CONTROL_PORT"

// AuthoritiesFile is the name of the file next to the configuration with the certificates of the manager's
// authorities.
const AuthoritiesFile = "manager-ca.crt"

// ControlPort returns the port in the environment; nil if it is not set.
func ControlPort(getenv func(string) string) (*int, error) {
	text := getenv(ControlPortVariable)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("the environment's %s is %q: must be a port, or 0 for any", ControlPortVariable, text)
	}
	return new(int(n)), nil
}
