package compare

// A Change is one difference between two plans.
type Change struct {
	// Subject is what has changed: "-device nic0", "file /data/fw-vars.fd".
	Subject string `json:"subject"`
	// Property is the part of it that has changed; empty means the whole.
	Property string `json:"property,omitempty"`
	// Old and New are the values; empty means that there is none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Meaning is what it means for a guest.
	Meaning Meaning `json:"meaning"`
	// Note adds what is known of this change in particular.
	Note string `json:"note,omitempty"`
	// Live says that a rule of the old plan covers it: the runner makes such a
	// change while the VM runs. Everything else takes a new start.
	Live bool `json:"live,omitempty"`
	// Place is the line of the new plan's source that made it, or of the old
	// one's if it is gone: "asset.star:17"; empty if it takes none.
	Place string `json:"place,omitempty"`
}

// Text returns subject, property and values on one line: "-device nic0: addr
// 0x7 -> 0x8".
func (c Change) Text() string { return c.Subject + ": " + c.Values() }

// Values returns what has changed without the subject.
func (c Change) Values() string {
	values := c.Old + " -> " + c.New
	switch {
	case c.Old == "" && c.New == "": // the subject says all
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
