/**
 * The permitted answers of an item of a FHIR Questionnaire.
 *
 * Invariant: every option of the item, or of a value set contained in the file, is one choice in the order of the file;
 * an external value set gives none. Reads R4, STU3 (`option`) and the form some servers write
 * (`value: {Coding: …}`).
 */
export type Fhir = Readonly<Record<string, unknown>>

export interface AnswerOption {
  readonly text_value: string
  readonly code?: string
  readonly points?: number
}

export function isFhir(value: unknown): value is Fhir {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The objects of a list. Throws if it is not a list of objects. */
export function listOf(value: unknown): Fhir[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw new Error('has another value where a list is expected')
  if (!value.every(isFhir)) throw new Error('has another value where an object is expected')
  return value
}

/** Text unchanged; other values as JSON, a missing value as empty text. */
export function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'string'
    ? value
    : value instanceof Date
      ? value.toISOString()
      : JSON.stringify(value)
}

export function optionsOf(item: Fhir, questionnaire: Fhir): AnswerOption[] {
  const options = [...listOf(item.answerOption), ...listOf(item.option)].map(optionOf)
  return options.length > 0 ? options : fromValueSet(referenceOf(item), questionnaire)
}

function referenceOf(item: Fhir): string {
  const given = item.answerValueSet ?? item.options
  return isFhir(given) ? textOf(given.reference) : textOf(given)
}

function fromValueSet(reference: string, questionnaire: Fhir): AnswerOption[] {
  const contained = listOf(questionnaire.contained)
  const set = contained.find(
    (one) =>
      (one.id !== undefined && reference === `#${textOf(one.id)}`) ||
      (one.url !== undefined && reference === one.url),
  )
  if (set === undefined || reference === '') return []
  const expansion = isFhir(set.expansion) ? flattened(listOf(set.expansion.contains)) : []
  const include = isFhir(set.compose) ? listOf(set.compose.include) : []
  const concepts = expansion.length > 0 ? expansion : include.flatMap((one) => listOf(one.concept))
  return concepts.map(codingOption)
}

function flattened(contains: readonly Fhir[]): Fhir[] {
  return contains.flatMap((one) => [one, ...flattened(listOf(one.contains))])
}

function optionOf(option: Fhir): AnswerOption {
  const nested = isFhir(option.value) ? Object.values(option.value)[0] : option.value
  const value = nested ?? Object.entries(option).find(([name]) => /^value[A-Z]/.test(name))?.[1]
  const points = pointsOf(option)
  const read = isFhir(value) ? codingOption(value) : { text_value: textOf(value) }
  return points === undefined ? read : { ...read, points }
}

function codingOption(coding: Fhir): AnswerOption {
  const code = textOf(coding.code)
  const text = textOf(coding.display ?? coding.reference) || code
  const points = pointsOf(coding)
  return {
    text_value: text,
    ...(code === '' ? {} : { code }),
    ...(points === undefined ? {} : { points }),
  }
}

/** Extensions of an option, a coding or a concept that say what it counts, by the end of their address. */
const POINTS = /\/(?:ordinalValue|itemWeight|valueset-ordinalValue|codesystem-ordinalValue|extension-score)$/

function pointsOf(holder: Fhir): number | undefined {
  const said = listOf(holder.extension).find(({ url }) => POINTS.test(textOf(url)))
  const value = said?.valueDecimal ?? said?.valueInteger
  return typeof value === 'number' ? value : undefined
}
