/** The name of the form of a record: from `form_name`, or from the embedded form. */
import { isObject } from '../../core/json.ts'
import { type Column, text } from '../stream.ts'
import { readCell } from './cell.ts'

export const formName: Column = {
  ...text('form_name'),
  read({ form_name, form }, _path, problems) {
    const own = readCell('text', form_name, 'form_name', problems)
    return own === null && isObject(form) ? readCell('text', form.name, 'form.name', problems) : own
  },
}
