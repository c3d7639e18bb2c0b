/**
 * Paths within a record of any stream, as problems are counted by them.
 *
 * Invariant: below a field of the record only known names remain; any other name may be a key of arbitrary JSON: it
 * becomes `*`, and the path ends there.
 */

const NAMES = new Set([
  ...['id', 'uid', 'index', 'name', 'label', 'text', 'text_value', 'value', 'type', 'status', '*'],
  ...['first_name', 'last_name', 'email', 'phone_number', 'relationship', 'external_id'],
  ...['address', 'address2', 'city', 'state', 'zipcode', 'color'],
  ...['pages', 'sections', 'rows', 'questions', 'question_type', 'question_subtype', 'help_text'],
  ...['order', 'sort_order', 'choices', 'question_choices', 'forms', 'form', 'form_id'],
  ...['field_id', 'field_type', 'required', 'page', 'scheduled_at'],
])

/** `path` starts with a known field of the record. Paths of responses are handled by response-paths. */
export function withoutForeignNames(path: string): string {
  const [field, ...below] = path.split('.')
  const foreign = below.findIndex((name) => !NAMES.has(name.replace(/(?:\[\d*\])+$/, '')))
  const known = foreign < 0 ? below : [...below.slice(0, foreign), '*']
  return [field, ...known].join('.')
}
