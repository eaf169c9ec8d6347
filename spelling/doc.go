// Package spelling finds the word that a misspelt one was meant to be, for messages
// such as "unknown key maximumRm (did you mean maximumRam?)".
package spelling
