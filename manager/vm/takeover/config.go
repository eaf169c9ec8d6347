package takeover

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// reconciler is the section of the manager's configuration about VMs.
const reconciler = "/Manager/Controller/Reconciler"

// former lists sections and keys of VM-Operator's configuration with new names in its later versions or in this
// project. Sections begin with a slash.
var former = []struct{ section, key, newSection, newKey string }{
	{"/Manager/Controller/DisplaySecretMonitor", "", reconciler + "/DisplaySecretReconciler", ""},
	{
		"/Manager/GuiHttpServer/ConsoleWeblet/WebConsole/ComponentCollector/VmViewer", "",
		"/Manager/GuiHttpServer/ConsoleWeblet/WebConsole/ComponentCollector/VmAccess", "",
	},
	{"/Manager/GuiHttpServer", "port", "/Manager/GuiSocketServer", "port"},
	{reconciler, "runnerData", reconciler, "runnerDataPvc"},
}

// Convert converts VM-Operator's configuration to our manager's. It writes each section with its full path and the
// current names of keys, and adds the trusted claims. An error means that the text isn't a configuration.
func Convert(text string, trustedClaims []string) (string, error) {
	var content map[string]any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		return "", fmt.Errorf("read the configuration: %w", err)
	}
	sections := map[string]map[string]any{}
	flattenSections("", content, sections)
	for _, f := range former {
		have, is := sections[f.section]
		if !is {
			continue
		}
		if f.key == "" {
			moveKeys(sections, f.newSection, have)
			delete(sections, f.section)
			continue
		}
		if value, is := have[f.key]; is {
			delete(have, f.key)
			moveKeys(sections, f.newSection, map[string]any{f.newKey: value})
		}
	}
	if len(trustedClaims) > 0 {
		sectionKeys(sections, reconciler)
		all, _ := sections[reconciler]["trustedClaims"].([]any)
		for _, name := range trustedClaims {
			if !slices.Contains(all, any(name)) {
				all = append(all, name)
			}
		}
		sections[reconciler]["trustedClaims"] = all
	}
	maps.DeleteFunc(sections, func(_ string, keys map[string]any) bool { return len(keys) == 0 })
	made, err := yaml.Marshal(sections)
	if err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	return string(made), nil
}

// flattenSections adds the sections below a path, each with its full path.
func flattenSections(path string, content map[string]any, into map[string]map[string]any) {
	for key, value := range content {
		name := key
		if rest, is := strings.CutPrefix(key, "_"); is {
			name = "/" + rest
		}
		inner, isMap := value.(map[string]any)
		switch {
		case !strings.HasPrefix(name, "/"):
			sectionKeys(into, path)[key] = value
		case isMap:
			flattenSections(path+name, inner, into)
		}
	}
}

// sectionKeys returns the keys of a section, and creates the section if necessary.
func sectionKeys(of map[string]map[string]any, path string) map[string]any {
	if of[path] == nil {
		of[path] = map[string]any{}
	}
	return of[path]
}

// moveKeys adds keys to a section, except for existing keys.
func moveKeys(of map[string]map[string]any, path string, keys map[string]any) {
	to := sectionKeys(of, path)
	for key, value := range keys {
		if _, is := to[key]; !is && value != nil {
			to[key] = value
		}
	}
}
