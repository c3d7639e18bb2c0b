/**
 * What `promtool check metrics` finds wrong with a page of metrics, by the same rules (Prometheus' promlint), and what
 * its parser would not read: a series that comes twice, a histogram without its sum.
 */

interface Family {
  readonly name: string
  readonly help: string
  type: string
  readonly series: { readonly name: string; readonly labels: readonly (readonly [string, string])[] }[]
}

const BASE_UNITS = [
  'amperes',
  'bytes',
  'celsius',
  'grams',
  'joules',
  'kelvin',
  'meters',
  'metres',
  'seconds',
  'volts',
]
const PREFIXES = [
  ...[
    'pico',
    'nano',
    'micro',
    'milli',
    'centi',
    'deci',
    'deca',
    'hecto',
    'kilo',
    'kibi',
    'mega',
    'mibi',
    'giga',
  ],
  ...['gibi', 'tera', 'tebi', 'peta', 'pebi'],
]
/** To the base unit that is meant. */
const OTHER_UNITS: Readonly<Record<string, string>> = {
  ...{ minutes: 'seconds', hours: 'seconds', days: 'seconds', weeks: 'seconds', kelvins: 'kelvin' },
  ...{ fahrenheit: 'celsius', rankine: 'celsius', inches: 'meters', yards: 'meters', miles: 'meters' },
  ...{ bits: 'bytes', calories: 'joules', pounds: 'grams', ounces: 'grams' },
}
const ABBREVIATIONS = ['s', 'ms', 'us', 'ns', 'sec', 'b', 'kb', 'mb', 'gb', 'tb', 'pb', 'm', 'h', 'd']
const TYPES = ['gauge', 'counter', 'summary', 'histogram']

/** One line for each thing that is wrong; empty where nothing is. */
export function lintMetrics(text: string): readonly string[] {
  const problems: string[] = []
  const families = read(text, problems)
  const seen = new Set<string>()
  for (const family of families) {
    if (seen.has(family.name)) problems.push(`${family.name}: comes twice`)
    seen.add(family.name)
    problems.push(...lint(family).map((what) => `${family.name}: ${what}`))
  }
  return problems
}

/** Names of all series that a page may hold, those without a sample at the moment among them. */
export function seriesNames(text: string): ReadonlySet<string> {
  const names = read(text, []).flatMap(({ name, type }) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  )
  return new Set(names)
}

function read(text: string, problems: string[]): readonly Family[] {
  const families: Family[] = []
  if (!text.endsWith('\n')) problems.push('the last line has no end')
  for (const line of text.split('\n')) {
    if (line === '') continue
    const head = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line)
    const last = families.at(-1)
    if (head?.[1] === 'HELP') families.push({ name: head[2]!, help: head[3]!, type: 'untyped', series: [] })
    else if (head !== null && last !== undefined && last.name === head[2]) last.type = head[3]!
    else if (head !== null) families.push({ name: head[2]!, help: '', type: head[3]!, series: [] })
    else {
      const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (?:-?[\d.e+-]+|NaN|Nan|[+-]Inf)$/.exec(line)
      if (sample === null || last === undefined) problems.push(`not readable: ${line}`)
      else last.series.push({ name: sample[1]!, labels: labelsOf(sample[2] ?? '') })
    }
  }
  return families
}

function labelsOf(text: string): readonly (readonly [string, string])[] {
  return [...text.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)].map(
    (each) => [each[1]!, each[2]!] as const,
  )
}

function lint({ name, help, type, series }: Family): readonly string[] {
  const parts = name.split('_')
  const problems: string[] = []
  const when = (wrong: boolean, what: string) => {
    if (wrong) problems.push(what)
  }
  when(help === '', 'no help text')
  when(!TYPES.includes(type), 'no type')
  when(type === 'counter' && !name.endsWith('_total'), 'counters end in _total')
  when(type !== 'counter' && name.endsWith('_total'), 'only counters end in _total')
  when(/_(?:bucket|count|sum)$/.test(name), 'ends as parts of histograms do')
  when(
    TYPES.some((each) => parts.includes(each)),
    'names its type',
  )
  when(name.includes(':'), 'a colon is for rules')
  when(/[a-z][A-Z]/.test(name), 'camelCase')
  when(
    parts.some((part) => ABBREVIATIONS.includes(part)),
    'an abbreviated unit',
  )
  for (const part of parts) {
    const base =
      OTHER_UNITS[part] ?? BASE_UNITS.find((unit) => PREFIXES.some((prefix) => part === prefix + unit))
    when(base !== undefined, `${part} in the place of ${base}`)
  }
  const suffixes = type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
  for (const each of series) {
    when(!suffixes.some((suffix) => each.name === name + suffix), `${each.name} is not of it`)
    const labels = each.labels.map(([label]) => label)
    when(new Set(labels).size < labels.length, 'a label twice')
    when(
      labels.some((label) => /[a-z][A-Z]/.test(label)),
      'a label in camelCase',
    )
    when(labels.includes('le') && !each.name.endsWith('_bucket'), 'label le outside a histogram')
    when(labels.includes('quantile') && type !== 'summary', 'label quantile outside a summary')
  }
  const keys = series.map((each) => `${each.name} ${JSON.stringify([...each.labels].sort())}`)
  when(new Set(keys).size < keys.length, 'a series twice')
  const counted = (suffix: string) => series.filter((each) => each.name === name + suffix).length
  when(type === 'histogram' && counted('_sum') !== counted('_count'), 'a sum without its count')
  const infinite = series.filter(({ labels }) =>
    labels.some(([label, value]) => label === 'le' && value === '+Inf'),
  )
  when(type === 'histogram' && infinite.length !== counted('_count'), 'no bucket for all')
  return [...new Set(problems)]
}
