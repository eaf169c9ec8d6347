package cluster

import (
	"maps"
	"slices"
)

// keysOf returns the keys of two mappings, sorted, or the number of items of the longer of two
// lists; nothing if one of them is there and is something else.
func keysOf(a, b any) (keys []string, items int) {
	one, isMap := a.(map[string]any)
	other, isToo := b.(map[string]any)
	if (isMap || a == nil) && (isToo || b == nil) && (isMap || isToo) {
		all := maps.Clone(one)
		if all == nil {
			all = map[string]any{}
		}
		maps.Copy(all, other)
		return slices.Sorted(maps.Keys(all)), 0
	}
	first, isList := a.([]any)
	second, isAlso := b.([]any)
	if (isList || a == nil) && (isAlso || b == nil) {
		return nil, max(len(first), len(second))
	}
	return nil, 0
}

// itemAt returns an item of a list; nil if there is none.
func itemAt(list any, i int) any {
	if all, ok := list.([]any); ok && i < len(all) {
		return all[i]
	}
	return nil
}
