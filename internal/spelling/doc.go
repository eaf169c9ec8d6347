// Package spelling finds the intended word for a misspelled word, for messages such as "unknown key maximumRm (did
// you mean maximumRam?)".
package spelling
