// Fails on private words: words that this project once used in a meaning of its own, where the field has a standard term.
// `npm run check` runs it over ROOTS; arguments name other files or folders. Prints file, line, word and replacement.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { extname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Checked without arguments. Add a folder here once its text has been rewritten. */
const ROOTS = [
  ...[
    'README.md',
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    'examples',
    '.github',
    'Dockerfile',
    'docker-compose.yml',
    '.ci',
    'docs',
    'scripts',
  ],
  ...['src', 'test', 'sql/views', 'sql/roles.sql', 'sql/citus.sql'],
  // Migrations never change after they landed; 0072 is the first one that was written in plain English.
  ...readdirSync(fileURLToPath(new URL('../sql/migrations', import.meta.url)))
    .filter((file) => file >= '0072')
    .map((file) => `sql/migrations/${file}`),
]

/** Files that must contain the words. */
const EXCLUDED = new Set(['scripts/check-words.mjs', 'test/scripts/check-words.test.ts'])

const EXTENSIONS = new Set(['', '.md', '.mjs', '.service', '.sh', '.sql', '.timer', '.ts', '.yaml', '.yml'])
const IGNORED_FOLDERS = new Set(['node_modules', 'dist', 'fixtures'])

/** Blanks between the words of a phrase, which may continue on the next line of a comment. */
const GAP = String.raw`\s+(?:(?:\*|//|#|--|>)\s*)?`
const phrase = (text) => new RegExp(String.raw`(?<![\w-])${text.replaceAll(' ', GAP)}(?![\w-])`, 'gi')

/** Matches whole words, and parts of identifiers: `held`, `is_held`, `isHeld`, `heldRow`. */
const word = (...forms) => {
  const capital = forms.map((form) => form[0].toUpperCase() + form.slice(1))
  const alone = `(?<![A-Za-z])(?:${[...forms, ...capital].join('|')})(?![a-z])`
  return new RegExp(`${alone}|(?<=[a-z])(?:${capital.join('|')})(?![a-z])`, 'g')
}

/**
 * What to find, and what to write instead. `before` and `after` are exceptions of standard English: the text within
 * NEAR characters on that side of the word.
 */
const RULES = [
  { find: phrase('(?:held|holds?|holding) up'), write: 'delay, block' },
  { find: phrase('(?:held|holds?) against'), write: 'compare with' },
  {
    find: word('held'),
    write: 'stored, current, kept; only a lock is held',
    before: /\block\w*\b[^.]*$/i,
    after: /^[^.]*\block/i,
  },
  { find: word('told', 'tells'), write: 'reports, says, shows, returns' },
  { find: phrase('tell (?:\\w+ )?(?:apart|from)'), write: 'distinguish' },
  { find: word('bear', 'bears', 'bearing', 'borne'), write: 'has, carries' },
  {
    find: word('mend', 'mends', 'mended', 'mending'),
    write: 'hint; fix, repair',
    // The JSON key, an alias of `hint`.
    before: /["'`]$/,
    after: /^["'`]/,
    bothSides: true,
  },
  { find: phrase('(?:sets?|setting) (?:\\w+ ){0,2}aside'), write: 'dead-letter' },
  {
    find: word('letter', 'letters'),
    write: 'dead letter',
    before: /(?:dead|to the|capital|lower-?case|upper-?case|latin|first|single|two)[ _-]?$/i,
    after: /^,? (?:and )?digits/i,
  },
  { find: phrase('(?:comes?|came|coming) about'), write: 'occur, start' },
  {
    find: phrase('of which'),
    write: 'a new sentence, or "of these"',
    before: /\b(?:all|both|each|most|none|one|some|two) $/i,
  },
  { find: phrase('beside'), write: 'next to, during, with, in addition to' },
  { find: word('thin'), write: 'partial', after: /^ (?:wrapper|layer|client)/i },
  { find: word('steady', 'unsteady'), write: 'stable', after: /^ state/i },
  { find: word('sift', 'sifts', 'sifted', 'sifting'), write: 'skip unchanged' },
  { find: word('ledger', 'ledgers'), write: 'seen ids' },
  { find: word('desk', 'desks'), write: 'the name of what it does', before: /help $/i },
  { find: word('bell', 'bells'), write: 'notifier' },
  { find: word('gate', 'gates'), write: 'limiter, permit' },
  {
    find: word('contested', 'uncontested'),
    write: 'conflicting',
    // The stored reason of a refetch, at the end of a string.
    after: /^(?:['`]|\$\/| \(conflict:)/,
  },
  { find: word('doubt', 'doubts', 'doubted', 'doubtful'), write: 'conflict' },
  { find: word('news'), write: 'tombstone, change' },
  { find: phrase('lies in'), write: 'is in' },
  { find: phrase('as (?:it|they) came'), write: 'as received' },
  { find: phrase('what (?:came|is held|was held)'), write: 'the record, the stored state' },
  { find: phrase('in hand'), write: 'current' },
  { find: /\b(?:MOST|LONGEST|LARGEST|LEAST)(?:_[A-Z]+)*\b(?= =)/g, write: 'MAX_…, MIN_…' },
  {
    // A headless relative clause as the subject of a sentence; a question is fine.
    find: /(?<=^[ \t]*(?:[-*#|/>]+[ \t]+)?(?:\*\*)?|[.;:] (?:\*\*)?)(?:What (?:is|was|are|were|has|had|can|cannot|does|did|will|may|must|came|comes|lost|waits|stays|differs|fails|failed|remains|stands|goes)|Who (?:has|wants|knows|needs|reads|writes|runs|owns|cannot))\b(?![^.?]*\?)/gm,
    write: 'a noun ("records that …", "users who …")',
  },
]

/**
 * Names that contain a private word and cannot change: columns and functions of migrations that have landed, values that
 * are stored, error codes and JSON keys that programs read. Findings within them are not reported.
 */
const FIXED_NAMES = [
  ...['alert.told', 'alerts.told', 'set told =', 'told_at', 'told_mark', 'hold_inbox_of', 'hold_erasures'],
  ...['as_it_came'],
  ...[
    'held_by_another_run',
    'no_such_letter',
    ' mend: ',
    'steady: last.stable',
    'steady: true',
    'steady: false',
    'told: outcome',
    'told: string',
    'events[0].told',
    'contested|partial',
    'is_held:',
  ],
]

/** How much of the text next to a word decides on an exception, in characters. */
const NEAR = 80

function isException({ before, after, bothSides = false }, text, start, end) {
  const left = before?.test(text.slice(Math.max(0, start - NEAR), start).replace(/\s+/g, ' ')) ?? false
  const right = after?.test(text.slice(end, end + NEAR).replace(/\s+/g, ' ')) ?? false
  return bothSides ? left && right : left || right
}

function isInFixedName(text, start, end) {
  return FIXED_NAMES.some((name) => {
    return text.slice(Math.max(0, end - name.length), start + name.length).includes(name)
  })
}

function findingsIn(text) {
  const findings = []
  for (const rule of RULES) {
    for (const match of text.matchAll(rule.find)) {
      const end = match.index + match[0].length
      // A longer phrase has reported this place already.
      if (findings.some((each) => match.index >= each.start && end <= each.end)) continue
      if (isException(rule, text, match.index, end)) continue
      if (isInFixedName(text, match.index, end)) continue
      const line = text.slice(0, match.index).split('\n').length
      findings.push({
        start: match.index,
        end,
        line,
        found: match[0].replace(new RegExp(GAP, 'g'), ' '),
        write: rule.write,
      })
    }
  }
  return findings.toSorted((a, b) => a.start - b.start)
}

/** Every text file at or below a path. */
function filesAt(path) {
  if (!statSync(path).isDirectory()) return [path]
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => !IGNORED_FOLDERS.has(entry.name))
    .flatMap((entry) => {
      if (entry.isDirectory()) return filesAt(join(path, entry.name))
      return EXTENSIONS.has(extname(entry.name)) ? [join(path, entry.name)] : []
    })
    .toSorted()
}

const root = fileURLToPath(new URL('..', import.meta.url))
const given = process.argv.slice(2)
const paths = given.length > 0 ? given.map((path) => resolve(path)) : ROOTS.map((path) => join(root, path))
let count = 0
for (const file of paths.flatMap(filesAt)) {
  const name = relative(root, file)
  if (EXCLUDED.has(name)) continue
  for (const { line, found, write } of findingsIn(readFileSync(file, 'utf8'))) {
    process.stdout.write(`${name}:${line}: "${found}": write ${write}\n`)
    count += 1
  }
}
if (count > 0) process.stdout.write(`${count} private words; docs/architecture.md has the terms\n`)
process.exitCode = count === 0 ? 0 : 1
