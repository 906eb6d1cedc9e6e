package network

import (
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	dnsPort    = 53
	maxDNS     = 512
	dnsSeconds = 60 // how long an answer may be cached; the address of a name does not change
)

// answerDNS answers a question with the address that stands for a permitted name. It asks no other server: the name is
// resolved when it is dialled. It returns nil for anything that is not a question.
func (n *Network) answerDNS(query []byte) []byte {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil || header.Response {
		return nil
	}
	question, err := p.Question()
	if err != nil {
		return nil
	}
	reply := dnsmessage.Header{
		ID: header.ID, Response: true, OpCode: header.OpCode, RecursionDesired: header.RecursionDesired,
		RecursionAvailable: true,
	}
	name := canonicalName(strings.TrimSuffix(question.Name.String(), "."))
	permitted := header.OpCode == 0 && question.Class == dnsmessage.ClassINET && n.policy().names(name)
	switch {
	case header.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
	case !permitted:
		reply.RCode = dnsmessage.RCodeNameError
		n.deny("lookup of", strings.ToValidUTF8(question.Name.String(), "?"), notListed)
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, maxDNS), reply)
	b.EnableCompression()
	if b.StartQuestions() != nil || b.Question(question) != nil || b.StartAnswers() != nil {
		return nil
	}
	if permitted && question.Type == dnsmessage.TypeA { // and for no other type: AAAA has no answer
		err = b.AResource(
			dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: dnsSeconds},
			dnsmessage.AResource{A: n.names.address(name).As4()})
	}
	if err != nil {
		return nil
	}
	answer, err := b.Finish()
	if err != nil {
		return nil
	}
	return answer
}
