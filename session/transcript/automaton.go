package transcript

// automaton finds all of a set of words in a text, in one step per byte however many words there are and however they
// overlap (Aho and Corasick, 1975). It is immutable. It takes 12 bytes per byte of the words.
type automaton struct {
	nodes    []node
	root     [256]int32       // the root's children, 0 for none
	branches map[branch]int32 // the children that do not follow their parent in nodes
}

// node stands for a beginning of a word. The root, node 0, stands for the empty one.
type node struct {
	fail    int32  // the longest other beginning of a word that this one ends with
	depth   uint16 // in bytes
	longest uint16 // length of the longest word that this beginning ends with, 0 for none
	label   byte   // the last byte
	chained bool   // the node before this one is its parent
}

type branch struct {
	parent int32
	label  byte
}

// newAutomaton makes an automaton of words of at most 64 KiB each.
func newAutomaton(words []string) *automaton {
	a := &automaton{nodes: make([]node, 1), branches: map[branch]int32{}}
	parents := []int32{0}
	for _, word := range words {
		parents = a.insert(word, parents)
	}
	a.link(parents)
	return a
}

// insert adds the nodes that a word lacks, and their parents to parents.
func (a *automaton) insert(word string, parents []int32) []int32 {
	at := int32(0)
	for i := range len(word) {
		label := word[i]
		to := a.child(at, label)
		if to == 0 {
			to = int32(len(a.nodes))
			chained := at > 0 && at == to-1
			a.nodes = append(a.nodes, node{depth: uint16(i + 1), label: label, chained: chained})
			parents = append(parents, at)
			switch {
			case at == 0:
				a.root[label] = to
			case !chained:
				a.branches[branch{at, label}] = to
			}
		}
		at = to
	}
	a.nodes[at].longest = uint16(len(word))
	return parents
}

// link sets fail and longest, of short beginnings first, since those of longer ones follow from them.
func (a *automaton) link(parents []int32) {
	var starts []int // by depth, where the nodes of that depth begin in order
	for _, n := range a.nodes {
		for int(n.depth)+1 >= len(starts) {
			starts = append(starts, 0)
		}
		starts[n.depth+1]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	order := make([]int32, len(a.nodes))
	for i, n := range a.nodes {
		order[starts[n.depth]] = int32(i)
		starts[n.depth]++
	}
	for _, i := range order[1:] {
		n := &a.nodes[i]
		if n.depth > 1 {
			n.fail = a.next(a.nodes[parents[i]].fail, n.label)
		}
		if n.longest == 0 {
			n.longest = a.nodes[n.fail].longest
		}
	}
}

// child is the node of a beginning with one more byte, 0 for none.
func (a *automaton) child(at int32, label byte) int32 {
	if at == 0 {
		return a.root[label]
	}
	if next := at + 1; int(next) < len(a.nodes) && a.nodes[next].chained && a.nodes[next].label == label {
		return next
	}
	return a.branches[branch{at, label}]
}

// next is the node after one more byte of the text.
func (a *automaton) next(at int32, label byte) int32 {
	for {
		if to := a.child(at, label); to != 0 || at == 0 {
			return to
		}
		at = a.nodes[at].fail
	}
}
