package disk

import "talaria/kernel"

const (
	blockBytes = 4096
	groupBytes = 32768 * blockBytes // of an ext4 block group
	inodeBytes = 256
	// A group's inode table consists of whole blocks.
	inodeStep    = blockBytes / inodeBytes
	journalBytes = 8 << 20
	groupMeta    = 4 * blockBytes // bitmaps, and its part of the group descriptors
	slackBytes   = 32 << 20       // that the file system reserves for itself, at least
	lostInodes   = 11             // that the file system uses for itself
)

// fewInodes is the part of the inodes, as a divisor, that an image may have fewer than its limit allows.
const fewInodes = 512

// geometry returns the size of an image whose limit can be anything from bytes to most, and its number of inodes: as
// many as a limit of bytes allows, or a few less. It is a sparse file: only written blocks occupy space. A group has at
// least inodeStep inodes, so if a limit of bytes allows fewer inodes than groups for most need, the limit cannot be most.
func geometry(bytes, most int64) (size, inodes int64) {
	inodes = kernel.Limits{DiskBytes: bytes}.Inodes()
	least := max(groupsFor(bytes, inodes), min(groupsFor(max(bytes, most), inodes), inodes/inodeStep))
	// Each group has the same number of inodes, so a given number of groups cannot give every number of inodes.
	groups, best := int64(0), int64(0)
	for n := least; n <= 2*least && inodes-best > inodes/fewInodes; n++ {
		if total := inodes / n / inodeStep * inodeStep * n; total > best {
			groups, best = n, total
		}
	}
	return groups * groupBytes, best
}

func groupsFor(bytes, inodes int64) int64 {
	whole := bytes + bytes/64 + inodes*inodeBytes + journalBytes + slackBytes
	return (whole + groupBytes - groupMeta - 1) / (groupBytes - groupMeta)
}
