package main

import (
	"fmt"
	"net/url"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// formOf returns an example of a list, dict or record in YAML, and "" for other options.
func formOf(o vmtypes.Option) string {
	switch o.Type {
	case "list":
		return "[a, b]"
	case "dict", "record":
		return "{a: b}"
	}
	return ""
}

func (c *creation) isImage(text string) error {
	before := c.draft.Image
	c.draft.Image = text
	err := c.completeImage()
	c.draft.Image = before
	return err
}

func isSize(text string) error {
	_, err := vmspec.ParseBytes(text)
	return err
}

func isDisk(text string) error {
	if text == "" || isSize(text) == nil {
		return nil
	}
	if _, err := existingFile(text); err != nil {
		return fmt.Errorf("it is neither a size nor an image: %w", err)
	}
	return nil
}

func isMedium(text string) error {
	if u, err := url.Parse(text); text == "" || err == nil && u.Scheme != "" {
		return nil
	}
	_, err := existingFile(text)
	return err
}
