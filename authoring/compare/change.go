package compare

// A Change is one difference between two plans.
type Change struct {
	// Subject is the changed thing: "-device nic0", "file /data/fw-vars.fd".
	Subject string `json:"subject"`
	// Property is the changed part of the subject; empty means the whole subject.
	Property string `json:"property,omitempty"`
	// Old and New are the values; empty means that there is no value.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Meaning is the meaning for a guest.
	Meaning Meaning `json:"meaning"`
	// Note contains details about this change.
	Note string `json:"note,omitempty"`
	// Live means that a rule of the old plan covers the change, so the runner applies it while the VM is running. All
	// other changes need a restart.
	Live bool `json:"live,omitempty"`
	// Place is the line of the new plan's source that created the subject, or the line of the old plan's source if the
	// subject was removed: "asset.star:17". It is empty if the place is unknown.
	Place string `json:"place,omitempty"`
}

// Text returns subject, property and values on one line: "-device nic0: addr
// 0x7 -> 0x8".
func (c Change) Text() string { return c.Subject + ": " + c.Values() }

// Values returns the property and the values, without the subject.
func (c Change) Values() string {
	values := c.Old + " -> " + c.New
	switch {
	case c.Old == "" && c.New == "": // the subject is complete
		values = ""
	case c.Old == "":
		values = "new: " + c.New
	case c.New == "":
		values = "gone: " + c.Old
	}
	if c.Property == "" {
		return values
	}
	return c.Property + " " + values
}
