package vmtypes

import "fmt"

// StockPrefix is the prefix of the names of the library's modules.
const StockPrefix = stockPrefix

// StockModules returns the names of the library's modules, such as "@vmtypes//lib/tpm.star", in the order of
// their files.
func StockModules() []string { return stockModules() }

// StockModule returns the text of a module of the library.
//
// See docs/decisions/0008-stock-types.md.
func StockModule(name string) (string, error) {
	text, err := new(Library).readSource(name)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}

// ResolveLoad returns the name of the module for load(spec) in the module from. The module may be missing.
func ResolveLoad(from, spec string) (string, error) { return resolveLoad(from, spec) }
