package transcript

import (
	"bytes"
	"strings"
)

// vendor is the form of the tokens that some service issues: a prefix, and min to max characters of a class; max 0 sets
// no limit.
type vendor struct {
	prefix   string
	class    charset
	min, max int
	check    func(body []byte) bool // optional
	keep     bool                   // the prefix is not secret
	anchor   int                    // in prefix
}

// forms are the tokens of vendors. They are strict: what only resembles one, such as a CSS class that begins with sk-,
// is not a secret.
var forms = []vendor{
	// Language models
	{prefix: "sk-", class: letters, min: 20, check: numbered},
	{prefix: "sk-", class: token, min: 32, check: random},
	{prefix: "sk-proj-", class: token, min: 20, check: numbered},
	{prefix: "sk-svcacct-", class: token, min: 20, check: numbered},
	{prefix: "sk-admin-", class: token, min: 20, check: numbered},
	{prefix: "sk-ant-", class: token, min: 20, check: numbered},
	{prefix: "sk-or-", class: token, min: 20, check: numbered},
	{prefix: "sk-lf-", class: token, min: 20, check: numbered},
	{prefix: "AIza", class: token, min: 30, max: 40, check: numbered, anchor: 1},
	{prefix: "hf_", class: letters, min: 30},
	{prefix: "api_org_", class: letters, min: 30},
	{prefix: "gsk_", class: letters, min: 30},
	{prefix: "r8_", class: letters, min: 30},
	{prefix: "pplx-", class: letters, min: 30},
	{prefix: "xai-", class: letters, min: 30},
	{prefix: "nvapi-", class: token, min: 40, check: numbered},
	{prefix: "csk-", class: letters, min: 30},
	{prefix: "fw_", class: letters, min: 20, check: numbered},
	{prefix: "jina_", class: letters, min: 30},
	{prefix: "tvly-", class: token, min: 20, check: numbered},
	{prefix: "fc-", class: hex, min: 32, max: 32},
	{prefix: "e2b_", class: hex, min: 40, max: 40},
	{prefix: "lsv2_pt_", class: token, min: 30, check: numbered},
	{prefix: "lsv2_sk_", class: token, min: 30, check: numbered},
	// Code and packages
	{prefix: "ghp_", class: letters, min: 30},
	{prefix: "gho_", class: letters, min: 30},
	{prefix: "ghu_", class: letters, min: 30},
	{prefix: "ghs_", class: letters, min: 30},
	{prefix: "ghr_", class: letters, min: 30},
	{prefix: "github_pat_", class: token, min: 22, check: numbered},
	{prefix: "glpat-", class: dotted, min: 20},
	{prefix: "gldt-", class: token, min: 20},
	{prefix: "glrt-", class: dotted, min: 20},
	{prefix: "glcbt-", class: token, min: 20},
	{prefix: "glptt-", class: token, min: 20},
	{prefix: "glft-", class: token, min: 20},
	{prefix: "glsoat-", class: token, min: 20},
	{prefix: "glagent-", class: token, min: 20, check: numbered},
	{prefix: "glimt-", class: token, min: 20},
	{prefix: "glffct-", class: token, min: 20},
	{prefix: "npm_", class: letters, min: 30},
	{prefix: "pypi-", class: token, min: 40, check: numbered},
	{prefix: "rubygems_", class: hex, min: 40},
	{prefix: "dckr_pat_", class: token, min: 20},
	{prefix: "dckr_oat_", class: token, min: 20},
	{prefix: "bkua_", class: hex, min: 40, max: 40},
	{prefix: "CCIPAT_", class: token, min: 30},
	{prefix: "sntrys_", class: token, min: 40},
	{prefix: "sntryu_", class: hex, min: 40},
	{prefix: "PMAK-", class: token, min: 40},
	// Clouds
	{prefix: "AKIA", class: upper, min: 16, max: 16},
	{prefix: "ASIA", class: upper, min: 16, max: 16},
	{prefix: "ABIA", class: upper, min: 16, max: 16},
	{prefix: "ACCA", class: upper, min: 16, max: 16},
	{prefix: "ya29.", class: dotted, min: 20},
	{prefix: "GOCSPX-", class: token, min: 20},
	{prefix: "dop_v1_", class: hex, min: 40},
	{prefix: "doo_v1_", class: hex, min: 40},
	{prefix: "dor_v1_", class: hex, min: 40},
	{prefix: "hvs.", class: token, min: 24},
	{prefix: "hvb.", class: token, min: 24},
	{prefix: "pul-", class: hex, min: 40, max: 40},
	{prefix: "sbp_", class: hex, min: 40, max: 40},
	{prefix: "sb_secret_", class: token, min: 20},
	{prefix: "pscale_tkn_", class: dotted, min: 32},
	{prefix: "pscale_pw_", class: dotted, min: 32},
	{prefix: "tskey-auth-", class: token, min: 20},
	{prefix: "tskey-api-", class: token, min: 20},
	{prefix: "tskey-client-", class: token, min: 20},
	{prefix: "glsa_", class: token, min: 30},
	{prefix: "glc_", class: base64Text, min: 40},
	{prefix: "NRAK-", class: upper, min: 27, max: 27},
	{prefix: "AGE-SECRET-KEY-", class: upper, min: 50},
	{prefix: "dp.pt.", class: letters, min: 40},
	// Messages, payments, documents
	{prefix: "xoxa-", class: token, min: 10, check: numbered},
	{prefix: "xoxb-", class: token, min: 10, check: numbered},
	{prefix: "xoxc-", class: token, min: 10, check: numbered},
	{prefix: "xoxd-", class: token, min: 10, check: numbered},
	{prefix: "xoxe-", class: token, min: 10, check: numbered},
	{prefix: "xoxp-", class: token, min: 10, check: numbered},
	{prefix: "xoxr-", class: token, min: 10, check: numbered},
	{prefix: "xoxs-", class: token, min: 10, check: numbered},
	{prefix: "xapp-", class: token, min: 10, check: numbered},
	{prefix: "SG.", class: dotted, min: 40},
	{prefix: "SK", class: hex, min: 32, max: 32},
	{prefix: "key-", class: hex, min: 32, max: 32},
	{prefix: "sk_live_", class: letters, min: 10},
	{prefix: "sk_test_", class: letters, min: 10},
	{prefix: "rk_live_", class: letters, min: 10},
	{prefix: "rk_test_", class: letters, min: 10},
	{prefix: "whsec_", class: base64Text, min: 24},
	{prefix: "shpat_", class: hex, min: 32, max: 32},
	{prefix: "shpca_", class: hex, min: 32, max: 32},
	{prefix: "shppa_", class: hex, min: 32, max: 32},
	{prefix: "shpss_", class: hex, min: 32, max: 32},
	{prefix: "sq0atp-", class: token, min: 20},
	{prefix: "sq0csp-", class: token, min: 40},
	{prefix: "lin_api_", class: letters, min: 30},
	{prefix: "ntn_", class: letters, min: 40},
	{prefix: "secret_", class: letters, min: 43, max: 43, check: numbered},
	{prefix: "figd_", class: token, min: 40},
	{prefix: "ATATT3", class: token, min: 40, anchor: 4},
	// Any
	{prefix: "eyJ", class: dotted, min: 20, check: webToken},
	{prefix: "Bearer ", class: credential, min: 20, check: numbered, keep: true, anchor: -1},
}

// vendors are the forms by the byte at their anchor and the one before it; anchors are the bytes where a rule begins.
var vendors, anchors = index()

func index() (table [256]*[256][]*vendor, set [256]bool) {
	for _, b := range []byte{':', '=', 'N'} {
		set[b], table[b] = true, new([256][]*vendor)
	}
	for i := range forms {
		f := forms[i]
		switch f.anchor {
		case 0:
			f.anchor = len(f.prefix) - 1
		case -1:
			f.anchor = 0
		}
		b := f.prefix[f.anchor]
		if set[b] = true; table[b] == nil {
			table[b] = new([256][]*vendor)
		}
		for previous := range table[b] {
			if f.anchor == 0 || f.prefix[f.anchor-1] == byte(previous) {
				table[b][previous] = append(table[b][previous], &f)
			}
		}
	}
	return table, set
}

// vendor finds a token by the anchor of its form.
func (w *window) vendor(i int, f *vendor) (match, bool) {
	m := match{start: max(0, i-f.anchor)}
	if i < f.anchor || string(w.text[m.start:i+1]) != f.prefix[:f.anchor+1] || !w.apart(m.start) {
		return m, false
	}
	body := i + 1
	for _, b := range []byte(f.prefix[f.anchor+1:]) {
		if w.at(body) != b {
			return m, false
		}
		body++
	}
	end := w.run(body, body+lookAhead, f.class)
	if m.end = end; end == body+lookAhead {
		m.goesOn = f.class
	} else if f.class == dotted && w.text[end-1] == '.' {
		m.end-- // of a sentence
	}
	if f.keep {
		m.start = body
	}
	n := m.end - body
	if n < f.min || f.max > 0 && (n > f.max || charsets[token][w.at(end)]) {
		return m, false
	}
	return m, f.check == nil || f.check(w.text[body:m.end])
}

// numbered reports whether a text has digits.
func numbered(body []byte) bool { return has(body, digits) }

// random reports whether a text has digits, small and capital letters.
func random(body []byte) bool {
	return has(body, digits) && bytes.ContainsAny(body, capitals) && bytes.ContainsAny(body, small)
}

// webToken reports whether a text is what follows eyJ in a JSON Web Token: the rest of the header, and a payload that
// is an object, or four other parts of one that is encrypted.
func webToken(body []byte) bool {
	header, payload, ok := strings.Cut(string(body), ".")
	return ok && len(header) >= 10 && (strings.HasPrefix(payload, "eyJ") || strings.Count(payload, ".") == 3)
}
