// Colours of code, by what most languages have in common: comments, strings, numbers and words of the language.

import { element } from "./dom.js";

const COMMENTS = {
  "#": "#[^\\n]*",
  "//": "\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$)",
  "--": "--[^\\n]*",
};
const LANGUAGES = {
  "#": "python py bash sh shell zsh console yaml yml toml ruby rb r julia jl perl makefile dockerfile",
  "//": "javascript js jsx typescript ts tsx json java c h cpp c++ cc cuda cs csharp go rust rs swift kotlin php css scss",
  "--": "sql lua haskell hs",
};
const COMMENT_OF = Object.fromEntries(Object.entries(LANGUAGES).flatMap(([begin, names]) => names.split(" ").map(name => [name, begin])));
const STRINGS = `"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\\\.|[^"\\\\\\n])*"|'(?:\\\\.|[^'\\\\\\n])*'|\`(?:\\\\.|[^\`\\\\])*\``;
const NUMBERS = "\\b(?:0x[\\da-fA-F]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\b";
const WORDS = new Set(
  ("and as assert async await begin break case catch class const continue def default del delete do done echo elif else end enum except " +
    "export extends extern false False fi final finally fn for from func function global goto if impl implements import in include " +
    "interface is lambda let local loop match mod mut namespace new nil None nonlocal not null of or package pass private protected pub " +
    "public raise require return self static struct super switch template then this throw trait true True try type typedef typeof " +
    "undefined union unsafe until use using var virtual void when where while with yield int float double char bool long short unsigned " +
    "string str SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE JOIN LEFT INNER ON GROUP BY ORDER LIMIT AS AND OR NOT").split(" "),
);
const patterns = {};

function patternOf(begin) {
  patterns[begin] ??= new RegExp(`(?<comment>${COMMENTS[begin]})|(?<string>${STRINGS})|(?<number>${NUMBERS})|(?<word>[\\p{L}_$][\\p{L}\\p{N}_$]*)`, "gu");
  return patterns[begin];
}

export function highlighted(text, language) {
  const made = element("code");
  const begin = COMMENT_OF[language.toLowerCase()];
  let at = 0;
  for (const found of begin ? text.matchAll(patternOf(begin)) : []) {
    const [kind] = Object.entries(found.groups).find(([, part]) => part !== undefined);
    if (kind === "word" && !WORDS.has(found[0])) continue;
    made.append(text.slice(at, found.index), element("span", kind, found[0]));
    at = found.index + found[0].length;
  }
  made.append(text.slice(at));
  return made;
}
