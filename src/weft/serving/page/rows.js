// Rows of a CSV, TSV, JSONL or plain file, as the model names its fields.

export function rowsOf(name, text, fields) {
  if (/\.jsonl?$/i.test(name)) return lines(text).map((line, number) => parsed(line, number));
  if (/\.txt$/i.test(name)) return lines(text).map(line => ({ [fields[0]]: line }));
  const table = separated(text.replace(/^\ufeff/, ""), /\.tsv$/i.test(name) || (!text.includes(",") && text.includes("\t")) ? "\t" : ",");
  const named = fields.every(field => table[0]?.includes(field));
  const heads = named ? table.shift() : fields;
  return table.map(cells => Object.fromEntries(heads.map((head, column) => [head, cells[column] ?? ""]).filter(([head]) => fields.includes(head))));
}

const lines = text => text.split(/\r?\n/).filter(line => line.trim());

function parsed(line, number) {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error(`Line ${number + 1} is no JSON.`);
  }
}

// Cells of a table, where quotes may hold separators, line breaks and doubled quotes.
function separated(text, mark) {
  const table = [[]];
  let [cell, quoted] = ["", false];
  const end = () => table.at(-1).push(cell) && (cell = "");
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') cell += text[(at += 1)];
      else quoted = false;
    } else if (letter === '"' && !cell) quoted = true;
    else if (letter === mark) end();
    else if (letter === "\n") {
      end();
      table.push([]);
    } else if (letter !== "\r") cell += letter;
  }
  end();
  return table.filter(row => row.some(each => each.trim()));
}
