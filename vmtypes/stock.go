package vmtypes

import "fmt"

// StockPrefix is what the names of the library's modules begin with.
const StockPrefix = stockPrefix

// StockModules returns the names of the library's modules as load spells them,
// in the order of their files: "@vmtypes//lib/tpm.star".
func StockModules() []string { return stockModules() }

// StockModule returns the text of a module of the library.
//
// See docs/decisions/0008-stock-types.md.
func StockModule(name string) (string, error) {
	text, err := new(Library).read(name)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}

// ResolveLoad returns the name of the module that the module called from means
// by a load of spec. Whether there is such a module is not known here.
func ResolveLoad(from, spec string) (string, error) { return resolveLoad(from, spec) }
